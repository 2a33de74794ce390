"""x"""
NAMESPACE="image"; OPERATORS=(); SCHEMAS={}
